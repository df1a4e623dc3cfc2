# The workspace's files. Arguments: limit?, cursor?
. "$SKILL_DIR/lib/api.sh"
call GET "/files$(query limit cursor)"
