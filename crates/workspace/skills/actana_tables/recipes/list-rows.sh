# Rows of a table, oldest first. Arguments: table, limit?, cursor?
. "$SKILL_DIR/lib/api.sh"
table=$(need table)
call GET "/tables/$(segment "$table")/rows$(query limit cursor)"
