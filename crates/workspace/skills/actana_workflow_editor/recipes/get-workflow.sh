# One workflow with its blocks and edges. Arguments: workflow
. "$SKILL_DIR/lib/api.sh"
workflow=$(need workflow)
call GET "/workflows/$(segment "$workflow")"
