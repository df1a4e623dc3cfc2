# Takes a row away. Arguments: table, row
. "$SKILL_DIR/lib/api.sh"
table=$(need table)
row=$(need row)
call DELETE "/tables/$(segment "$table")/rows/$(segment "$row")"
