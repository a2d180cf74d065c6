//go:build controls

package inbox

import "os"

// forgetful has every delivery taken for the first one.
var forgetful = os.Getenv("CHORUS_CONTROL") == "inbox"
