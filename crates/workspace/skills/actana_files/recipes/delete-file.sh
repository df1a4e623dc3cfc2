# Takes a file out of the workspace. Arguments: file
. "$SKILL_DIR/lib/api.sh"
file=$(need file)
call DELETE "/files/$(segment "$file")"
