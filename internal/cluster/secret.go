package cluster

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const secretFile = "secret"

// MakeSecret makes a data folder's secret, readable by its owner alone, unless it is there.
func MakeSecret(dir string) error {
	path := filepath.Join(dir, secretFile)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the secret: %w", err)
	}
	fresh := make([]byte, 32)
	rand.Read(fresh)
	_, err = file.WriteString(hex.EncodeToString(fresh) + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the secret: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Passwords returns how the password of a database role is derived from a data folder's secret, the same at every start. The error is fs.ErrNotExist for
// a folder in which no cluster has been up.
func Passwords(dir string) (func(role string) string, error) {
	path := filepath.Join(dir, secretFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the secret: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(raw)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("the secret in %s is damaged", path)
	}
	return func(role string) string {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(role))
		return hex.EncodeToString(mac.Sum(nil)[:16])
	}, nil
}
