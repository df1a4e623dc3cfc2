# Fetches a file: into `path` when that is given, else its text into the answer.
# Arguments: file, path?
. "$SKILL_DIR/lib/api.sh"
file=$(need file)
path=$(text path)
file="/files/$(segment "$file")"
download "$file/content" "$work/content"
if [ -n "$path" ]; then
    mkdir -p -- "$(dirname -- "$path")"
    cp -- "$work/content" "$path"
    call GET "$file"
else
    size=$(wc -c <"$work/content" | tr -d ' ')
    [ "$size" -le 262144 ] || fail "the file has $size bytes: give \`path\` to fetch it into a file"
    content=$(quoted "$work/content") || fail "the file is not text: give \`path\` to fetch it into a file"
    printf '{"content":%s}\n' "$content"
fi
