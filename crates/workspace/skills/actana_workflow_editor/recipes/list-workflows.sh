# The workspace's workflows. Arguments: limit?, cursor?
. "$SKILL_DIR/lib/api.sh"
call GET "/workflows$(query limit cursor)"
