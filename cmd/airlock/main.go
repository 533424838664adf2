// Command airlock runs what an AI asks for in a sandbox over your files.
package main

import "gvisor.dev/gvisor/runsc/cli/maincli"

func main() { maincli.Main() }
