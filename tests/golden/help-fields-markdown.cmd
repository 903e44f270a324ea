# docs/plan.md is what this prints.
memplan help fields --markdown | diff - "$GOLDEN/../../docs/plan.md"
