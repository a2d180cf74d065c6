//go:build !controls

package inbox

// forgetful switches the inbox off, in the test binary of the e2e controls alone: there the same checks must fail.
const forgetful = false
