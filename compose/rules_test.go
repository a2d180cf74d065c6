package compose

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// published are the services of which there is one, which may have a port of this machine.
var published = []string{"kafka", "postgres", "console"}

// faults lists what breaks a rule of this project.
func faults(p *types.Project) (all []string) {
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for name, s := range p.Services {
		if s.ContainerName != "" {
			fault("%s has a fixed name, so it cannot be scaled", name)
		}
		for _, port := range s.Ports {
			if !slices.Contains(published, name) {
				fault("%s publishes a port, so it cannot be scaled", name)
			}
			if ip := net.ParseIP(port.HostIP); ip == nil || !ip.IsLoopback() {
				fault("%s is published beyond this machine", name)
			}
		}
		if _, tag, _ := strings.Cut(s.Image, ":"); tag == "" || tag == "latest" {
			fault("%s: image %s has no version", name, s.Image)
		}
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < 5*time.Second {
			fault("%s may be killed before it has stopped", name)
		}
		ends := s.Restart == "no"
		if checked := s.HealthCheck != nil && !s.HealthCheck.Disable && len(s.HealthCheck.Test) > 0; checked == ends {
			fault("%s has no health check, or ends and has one", name)
		}
		for other, d := range s.DependsOn {
			switch o, ok := p.Services[other]; {
			case !ok:
				fault("%s waits for %s, which is not there", name, other)
			case d.Condition == types.ServiceConditionCompletedSuccessfully && o.Restart == "no":
			case d.Condition == types.ServiceConditionHealthy && o.Restart != "no":
			default:
				fault("%s waits for %s to be started, which says nothing (%s)", name, other, d.Condition)
			}
		}
		if s.Build != nil {
			all = append(all, ours(name, s)...)
		}
	}
	all = append(all, kafka(p.Services["kafka"])...)
	all = append(all, postgres(p.Services["postgres"])...)
	return append(all, hosts(p)...)
}

// ours are the rules for the processes of chorus.
func ours(name string, s types.ServiceConfig) (all []string) {
	if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") {
		all = append(all, name+" can write to its image, or has capabilities")
	}
	if _, waits := s.DependsOn["deploy"]; !waits && s.Restart != "no" {
		all = append(all, name+" does not wait for deploy, and would find no tables and topics")
	}
	return all
}

func kafka(s types.ServiceConfig) (all []string) {
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf("kafka: "+format, args...)) }
	env := func(name string) string {
		if v := s.Environment[name]; v != nil {
			return *v
		}
		return ""
	}
	// 16 bytes; an id whose last character has bits to spare would be written differently by the broker.
	id := env("CLUSTER_ID")
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(id); err != nil || len(raw) != 16 {
		fault("CLUSTER_ID %q is not the base64 of 16 bytes", id)
	}
	if dir := env("KAFKA_LOG_DIRS"); !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Type == "volume" && v.Source != "" && v.Target == dir }) {
		fault("the data in %s is in no volume", dir)
	}
	if env("KAFKA_AUTO_CREATE_TOPICS_ENABLE") != "false" {
		fault("it makes topics on first use, with a number of partitions that nobody chose")
	}
	for name, v := range s.Environment {
		if strings.Contains(name, "REPLICATION_FACTOR") || strings.HasSuffix(name, "MIN_ISR") {
			if n, err := strconv.Atoi(*v); err != nil || n != 1 {
				fault("%s: %s copies, and there is one broker", name, *v)
			}
		}
	}
	return all
}

func postgres(s types.ServiceConfig) (all []string) {
	test := strings.Join(s.HealthCheck.Test, " ")
	for _, part := range []string{"-h 127.0.0.1", "-U ", "-d "} {
		if !strings.Contains(test, part) {
			all = append(all, "postgres: the health check is answered on the socket before the server is initialised, or by any database: "+test)
		}
	}
	if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Type == "volume" && v.Target == "/var/lib/postgresql/data"
	}) {
		all = append(all, "postgres: its data is in no volume")
	}
	return all
}

// hostPort finds what looks like host:port; a URL has its host after // or @.
var hostPort = regexp.MustCompile(`([a-z][a-z0-9.-]*):([0-9]{2,5})\b`)

// hosts looks up every host that is named in a command, an environment or a health check (OPS-09).
func hosts(p *types.Project) (all []string) {
	for name, s := range p.Services {
		var texts []string
		for _, v := range s.Environment {
			if v != nil {
				texts = append(texts, *v)
			}
		}
		texts = append(append(texts, s.Command...), s.Entrypoint...)
		if s.HealthCheck != nil {
			texts = append(texts, s.HealthCheck.Test...)
		}
		for _, text := range texts {
			for _, found := range named(text) {
				if _, ok := p.Services[found.host]; !ok {
					all = append(all, fmt.Sprintf("%s names the host %q, which is no service: %s", name, found.host, text))
				} else if found.port != "" && !serves(p.Services[found.host], found.port) {
					all = append(all, fmt.Sprintf("%s: %s does not listen on port %s: %s", name, found.host, found.port, text))
				}
			}
		}
	}
	return all
}

type address struct{ host, port string }

// named returns the addresses in a text, but for those of the process itself.
func named(text string) (all []address) {
	if i := strings.Index(text, "postgres://"); i >= 0 {
		if u, err := url.Parse(text[i:]); err == nil {
			return []address{{u.Hostname(), u.Port()}}
		}
	}
	for _, m := range hostPort.FindAllStringSubmatch(text, -1) {
		all = append(all, address{m[1], m[2]})
	}
	return all
}

// serves tells whether a service says that it listens on the port.
func serves(s types.ServiceConfig, port string) bool {
	if s.Build != nil || s.Name == "registry" {
		return port == "8080"
	}
	for _, v := range s.Environment {
		if v != nil && strings.Contains(*v, "://:"+port) {
			return true
		}
	}
	return false
}
