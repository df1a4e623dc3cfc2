# Takes a block away and joins what was before it to what was behind it.
# Arguments: workflow, node
. "$SKILL_DIR/lib/workflow.sh"
need node >"$work/given"
edit 'if any(.blocks[]; .id == $args.node) then . else error("there is no block `\($args.node)`") end
    | .blocks |= map(select(.id != $args.node))
    | [.edges[] | select(.to == $args.node) | .from] as $before
    | [.edges[] | select(.from == $args.node) | .to] as $behind
    | .edges |= map(select(.from != $args.node and .to != $args.node))
    | .edges += ([$before[] as $from | $behind[] as $to | {from: $from, to: $to}] - .edges)' \
    '
node = args["node"]
if all(block["id"] != node for block in it["blocks"]):
    raise ValueError(f"there is no block `{node}`")
before = [edge["from"] for edge in it["edges"] if edge["to"] == node]
behind = [edge["to"] for edge in it["edges"] if edge["from"] == node]
it["blocks"] = [block for block in it["blocks"] if block["id"] != node]
it["edges"] = [edge for edge in it["edges"] if node not in (edge["from"], edge["to"])]
joined = [{"from": one, "to": other} for one in before for other in behind]
it["edges"] += [edge for edge in joined if edge not in it["edges"]]
'
call PUT "$workflow"
