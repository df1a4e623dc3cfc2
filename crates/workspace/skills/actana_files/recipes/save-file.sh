# Keeps a file in the workspace: the one at `path`, or `content` as `name`.
# Arguments: path, name? or name, content
. "$SKILL_DIR/lib/api.sh"
path=$(text path)
name=$(text name)
if [ -z "$path" ]; then
    [ -n "$name" ] || fail "give \`path\`, or \`name\` and \`content\`"
    path=$work/content
    text content >"$path"
else
    [ -f "$path" ] || fail "there is no file \`$path\`"
    [ -n "$name" ] || name=$(basename -- "$path")
fi
upload /files "$path" "$name"
