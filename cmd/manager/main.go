// Command manager is the Berth operator.
package main

import "github.com/berth-dev/berth/cmd/manager/app"

func main() { app.Main() }
