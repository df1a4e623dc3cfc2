# Short names only; the logic is in xtask.

# Builds everything and serves on 127.0.0.1:3000.
serve *args:
    cargo xtask serve {{args}}

# Installs what the tests need and runs all of them.
test *filter:
    cargo xtask test {{filter}}

build:
    cargo xtask build

# Licences, banned and unused dependencies.
audit:
    cargo xtask audit
