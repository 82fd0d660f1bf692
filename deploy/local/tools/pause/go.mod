module windlass/deploy/local/tools/pause

go 1.22
