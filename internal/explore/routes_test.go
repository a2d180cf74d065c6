package explore

import (
	"sync"

	"chorus/internal/provider"
)

// routed reads the shipped providers file once.
var routed = sync.OnceValues(func() (*provider.File, error) { return provider.Load("") })

// shipped is the system as it is shipped, with the routes compiled from the file that is shipped with it.
func shipped() System {
	file, err := routed()
	if err != nil {
		panic(err)
	}
	return Shipped(file.Route)
}
