# Changing a workflow: fetched, changed and sent back as a whole, so that the
# workspace checks every change.
. "$SKILL_DIR/lib/api.sh"
workflow=$(need workflow)
workflow="/workflows/$(segment "$workflow")"
call GET "$workflow" >"$work/now"
mv "$work/now" "$work/body"
edit '{name, environment, blocks, edges} | with_entries(select(.value != null))' \
    'it = {name: it[name] for name in ("name", "environment", "blocks", "edges") if it.get(name) is not None}'
