-- What a sandbox reaches, as JSON. Sandboxes of before reached nothing.

ALTER TABLE sandboxes ADD COLUMN network TEXT NOT NULL DEFAULT '"none"';
