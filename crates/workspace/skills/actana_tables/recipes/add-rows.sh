# Adds rows to a table: all of them or none. Arguments: table, rows
. "$SKILL_DIR/lib/api.sh"
table=$(need table)
given rows >"$work/body"
call POST "/tables/$(segment "$table")/rows"
