module windlass/deploy/local/tools/socket-server

go 1.22
