# Replaces what is given of a workflow, and leaves the rest.
# Arguments: workflow, name?, environment?, blocks?, edges?
. "$SKILL_DIR/lib/workflow.sh"
edit '. + ($args | {name, environment, blocks, edges} | with_entries(select(.value != null)))' \
    'it.update({name: args[name] for name in ("name", "environment", "blocks", "edges") if args.get(name) is not None})'
call PUT "$workflow"
