# Makes a table. Arguments: name, columns
. "$SKILL_DIR/lib/api.sh"
given name columns >"$work/body"
call POST /tables
