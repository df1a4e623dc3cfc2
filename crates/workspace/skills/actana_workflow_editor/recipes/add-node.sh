# Adds a block behind `after`; with `before`, between the two.
# Arguments: workflow, node, nodeType, inputs?, after, before?
. "$SKILL_DIR/lib/workflow.sh"
for name in node nodeType after; do need "$name" >"$work/given"; done
edit '.blocks += [{id: $args.node, type: $args.nodeType, inputs: ($args.inputs // {})}]
    | .edges |= map(select($args.before == null or .from != $args.after or .to != $args.before))
    | .edges += [{from: $args.after, to: $args.node}]
    | if $args.before == null then . else .edges += [{from: $args.node, to: $args.before}] end' \
    '
before = args.get("before")
it["blocks"].append({"id": args["node"], "type": args["nodeType"], "inputs": args.get("inputs") or {}})
joined = {"from": args["after"], "to": before}
it["edges"] = [edge for edge in it["edges"] if before is None or edge != joined]
it["edges"].append({"from": args["after"], "to": args["node"]})
if before is not None:
    it["edges"].append({"from": args["node"], "to": before})
'
call PUT "$workflow"
