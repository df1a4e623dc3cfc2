//! What a workspace's owner makes and names, by its routes.

mod agents;
mod place;
mod recipes;
mod secrets;
mod skills;
mod tables;
