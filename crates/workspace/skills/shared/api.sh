# What all recipes share: their arguments, and calls of the workspace's API.
# Sourced by each of them. Needs curl and jq, or python3 alone.
#
#   text NAME            an argument as text; nothing when it is not given
#   need NAME            the same, and the end of the recipe when it is not given
#   given NAME...        the named arguments that are given, as one JSON object
#   query NAME...        the same as a query string
#   segment TEXT         the text as one part of a path
#   call METHOD PATH     calls the API; the body is "$work/body" when there is one
#   quoted FILE          the text of a file as a JSON string; fails when it is no text
#   upload PATH FILE NAME    sends a file as a form
#   download PATH FILE   fetches what is at the path into a file
#   edit JQ PYTHON       changes the JSON in "$work/body"; both do the same
#
# A call that fails prints the API's own message and ends the recipe.
set -eu

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

: "${WORKSPACE_API_URL:=}" "${WORKSPACE_API_TOKEN:=}"
[ -n "$WORKSPACE_API_URL" ] || fail "WORKSPACE_API_URL is not set: this sandbox has no workspace"
[ -n "$WORKSPACE_API_TOKEN" ] || fail "WORKSPACE_API_TOKEN is not set: this sandbox has no workspace"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/args"
[ -s "$work/args" ] || printf '{}' >"$work/args"

if command -v curl >/dev/null 2>&1 && command -v jq >/dev/null 2>&1; then
    . "$SKILL_DIR/lib/curl.sh"
elif command -v python3 >/dev/null 2>&1; then
    . "$SKILL_DIR/lib/python.sh"
else
    fail "this recipe needs curl and jq, or python3"
fi

need() {
    value=$(text "$1")
    [ -n "$value" ] || fail "argument \`$1\` is missing"
    printf '%s' "$value"
}
