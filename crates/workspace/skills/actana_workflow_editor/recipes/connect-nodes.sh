# Draws an edge between two blocks. Arguments: workflow, from, to
. "$SKILL_DIR/lib/workflow.sh"
for name in from to; do need "$name" >"$work/given"; done
edit '.edges |= (. - [{from: $args.from, to: $args.to}] + [{from: $args.from, to: $args.to}])' \
    '
edge = {"from": args["from"], "to": args["to"]}
it["edges"] = [one for one in it["edges"] if one != edge] + [edge]
'
call PUT "$workflow"
