module gitkruise.io/tests/node/app

go 1.24.0
