package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/policy"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// access is how an engine is reached: with what credentials, and over which connections.
type access struct {
	// endpoint is the engine's scheme, host and port.
	endpoint string
	options  Options
	remote   *policy.Remote
	client   *http.Client
}

func newAccess(o Options, r *policy.Remote) *access {
	return &access{endpoint: r.Document.Scheme + "://" + r.Document.Host, options: o, remote: r, client: &http.Client{}}
}

// exchange sends one request, once, and returns the body of an answer with status 2xx. The error is an
// *engine.RemoteError.
func (a *access) exchange(ctx context.Context, method string, at *url.URL, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, a.fault(engine.FaultSerialization, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return nil, a.fault(engine.FaultNetwork, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, a.fault(engine.FaultNetwork, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, a.fault(engine.FaultServer, fmt.Errorf("status %s", response.Status))
	}
	return answer, nil
}

func (a *access) fault(f engine.Fault, err error) *engine.RemoteError {
	return &engine.RemoteError{Endpoint: a.endpoint, Fault: f, Err: err}
}
