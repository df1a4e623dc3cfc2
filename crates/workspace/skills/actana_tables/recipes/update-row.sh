# Replaces a row. Arguments: table, row, data
. "$SKILL_DIR/lib/api.sh"
table=$(need table)
row=$(need row)
given data >"$work/body"
call PUT "/tables/$(segment "$table")/rows/$(segment "$row")"
