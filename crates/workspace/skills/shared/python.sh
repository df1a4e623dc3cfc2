# The shared functions by python3; see api.sh.

text() { python3 "$SKILL_DIR/lib/api.py" text "$work" "$@"; }
given() { python3 "$SKILL_DIR/lib/api.py" given "$work" "$@"; }
query() { python3 "$SKILL_DIR/lib/api.py" query "$work" "$@"; }
segment() { python3 "$SKILL_DIR/lib/api.py" segment "$work" "$@"; }
quoted() { python3 "$SKILL_DIR/lib/api.py" quoted "$work" "$@"; }
call() { python3 "$SKILL_DIR/lib/api.py" call "$work" "$@"; }
upload() { python3 "$SKILL_DIR/lib/api.py" upload "$work" "$@"; }
download() { python3 "$SKILL_DIR/lib/api.py" download "$work" "$@"; }
edit() { python3 "$SKILL_DIR/lib/api.py" edit "$work" "$2"; }
