// Package pgserver runs a private PostgreSQL in a folder: the database of
// `chorus up` on a machine where nobody installed one, and of the tests.
//
// It owns one folder ([Config.Dir]): the cluster itself (data), the password of
// its superuser (password, mode 0600), the socket and the log. PostgreSQL
// refuses to run as root, so for root the server runs as an unprivileged user of
// the machine who owns the cluster alone.
//
// What a crash leaves: initdb works in a folder of another name that is renamed
// when it is complete, so a half-made cluster is never started. A postmaster that
// was killed leaves postmaster.pid and perhaps sessions that have not noticed
// yet; [Start] ends these, removes the file and lets PostgreSQL recover. On
// Linux the postmaster is ended by the kernel when the process that started it
// dies; elsewhere it lives on, and the next Start ends it.
package pgserver
