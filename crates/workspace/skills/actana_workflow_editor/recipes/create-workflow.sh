# Makes a workflow. Arguments: name, blocks, edges, environment?
. "$SKILL_DIR/lib/api.sh"
given name environment blocks edges >"$work/body"
call POST /workflows
