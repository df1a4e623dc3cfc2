# The shared functions by curl and jq; see api.sh.

text() {
    jq -j --arg name "$1" '.[$name] | if . == null then "" elif type == "string" then . else tojson end' "$work/args"
}

given() {
    jq -c '. as $all | [$ARGS.positional[] | select($all[.] != null) | {key: ., value: $all[.]}] | from_entries' \
        "$work/args" --args "$@"
}

query() {
    given "$@" | jq -j 'to_entries | map("\(.key)=\(.value | tostring | @uri)") | join("&") | if . == "" then . else "?" + . end'
}

segment() {
    jq -jn --arg text "$1" '$text | @uri'
}

quoted() {
    # jq mends what is not UTF-8, which is how it is told from text.
    jq -Rsj . "$1" | cmp -s - "$1" || return 1
    jq -Rs . "$1"
}

call() {
    if [ -f "$work/body" ]; then
        ask -X "$1" -H 'Content-Type: application/json' --data-binary "@$work/body" "$WORKSPACE_API_URL$2"
    else
        ask -X "$1" "$WORKSPACE_API_URL$2"
    fi
    # Some answers have no body.
    if [ -s "$work/answer" ]; then cat "$work/answer"; else printf '{"ok":true}\n'; fi
}

upload() {
    # The name travels in quotes, where curl wants these two escaped.
    name=$(printf '%s' "$3" | sed 's/[\\"]/\\&/g')
    cp "$2" "$work/upload"
    ask -F "file=@$work/upload;filename=\"$name\"" "$WORKSPACE_API_URL$1"
    cat "$work/answer"
}

download() {
    ask "$WORKSPACE_API_URL$1"
    mv "$work/answer" "$2"
}

edit() {
    jq -c --slurpfile args "$work/args" '$args[0] as $args | '"$1" "$work/body" >"$work/edited" 2>"$work/said" ||
        fail "$(sed 's/^jq: error (at [^)]*): //' "$work/said")"
    mv "$work/edited" "$work/body"
}

# One request; its answer is "$work/answer". The token goes in by a file, so
# that no list of processes shows it.
ask() {
    printf 'header = "Authorization: Bearer %s"\n' "$WORKSPACE_API_TOKEN" >"$work/curl"
    : >"$work/answer"
    status=$(curl -sS -K "$work/curl" -o "$work/answer" -w '%{http_code}' --max-time 300 "$@") ||
        fail "the workspace did not answer"
    case $status in
    2*) ;;
    *) fail "$(jq -r 'if .field then "\(.field): \(.message)" else .message end' "$work/answer" 2>/dev/null ||
        printf 'the workspace answered %s' "$status")" ;;
    esac
}
