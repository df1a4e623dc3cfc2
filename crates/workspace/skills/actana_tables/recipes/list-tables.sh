# The workspace's tables with their columns. Arguments: limit?, cursor?
. "$SKILL_DIR/lib/api.sh"
call GET "/tables$(query limit cursor)"
