// A small operator on controller-runtime that runs against the cluster of $KUBECONFIG, looks at what
// it gets, and ends with 0 when all of it is as Kubernetes promises: greetings [--bare].
//
// --bare: no garbage collector, no controllers and no nodes are there (a kube-apiserver alone).
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	namespace = "greetings"
	patience  = 60 * time.Second
)

// stage is everything the scenes share.
type stage struct {
	ctx     context.Context
	config  *rest.Config
	scheme  *runtime.Scheme
	traffic *Traffic
	direct  client.Client // asks the server each time
	leaders []*leader
	bare    bool
}

// leader is one of the managers that want to lead.
type leader struct {
	name    string
	manager ctrl.Manager
	stop    context.CancelFunc
	ended   chan error
}

func main() {
	bare := flag.Bool("bare", false, "an API server without controllers and nodes")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	s, err := open(ctx, *bare)
	if err == nil {
		err = s.play()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "failed:", err)
		os.Exit(1)
	}
}

func open(ctx context.Context, bare bool) (*stage, error) {
	loaded, err := config.GetConfig()
	if err != nil {
		return nil, err
	}
	s := &stage{ctx: ctx, config: loaded, scheme: runtime.NewScheme(), traffic: &Traffic{}, bare: bare}
	loaded.QPS, loaded.Burst = 200, 400
	loaded.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, s.traffic} })
	if err := clientgoscheme.AddToScheme(s.scheme); err != nil {
		return nil, err
	}
	if err := apiextensionsv1.AddToScheme(s.scheme); err != nil {
		return nil, err
	}
	addGreetings(s.scheme)
	s.direct, err = client.New(loaded, client.Options{Scheme: s.scheme})
	return s, err
}

func (s *stage) play() error {
	scenes := []struct {
		name string
		act  func(*stage) error
	}{
		{"a namespace and a definition", prepare},
		{"one of two managers leads", startManagers},
		{"greetings are answered", greet},
		{"what is changed or taken away comes back", restore},
		{"the cache answers by label and by index", readCache},
		{"conflicts, preconditions and validation are told apart", refusals},
		{"server-side apply has owners", applySides},
		{"lists come in pages", pages},
		{"subresources: scale and eviction", subresources},
		{"pods of a deployment become ready", deploy},
		{"statuses are written in parts", partly},
		{"a definition changes while it is served", redefine},
		{"web hooks change and refuse", review},
		{"finalizers and owners are honoured", farewell},
		{"the other manager takes over", takeOver},
		{"the wire", wire},
	}
	for _, scene := range scenes {
		if err := scene.act(s); err != nil {
			return fmt.Errorf("%s: %w", scene.name, err)
		}
		fmt.Println("ok:", scene.name)
	}
	counts := s.traffic.seen()
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("%s: %d\n", name, counts[name])
	}
	return nil
}

func prepare(s *stage) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := s.direct.Create(s.ctx, space); err != nil {
		return err
	}
	if err := s.direct.Create(s.ctx, definition()); err != nil {
		return err
	}
	return eventually(s.ctx, "greetings are served", func(ctx context.Context) bool {
		return s.direct.List(ctx, &GreetingList{}, client.InNamespace(namespace)) == nil
	})
}

func startManagers(s *stage) error {
	for _, name := range []string{"first", "second"} {
		started, err := s.startManager(name)
		if err != nil {
			return err
		}
		s.leaders = append(s.leaders, started)
		if name == "first" {
			<-started.manager.Elected()
		}
	}
	select {
	case <-s.leaders[1].manager.Elected():
		return fmt.Errorf("both lead")
	case <-time.After(2 * time.Second):
		return nil
	}
}

func (s *stage) startManager(name string) (*leader, error) {
	lease, renew, retry := 6*time.Second, 4*time.Second, time.Second
	manager, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme:                        s.scheme,
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "greeter",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return nil, err
	}
	loud := func(obj client.Object) []string {
		return []string{fmt.Sprint(obj.(*Greeting).Spec.Loud)}
	}
	if err := manager.GetFieldIndexer().IndexField(s.ctx, &Greeting{}, "spec.loud", loud); err != nil {
		return nil, err
	}
	if _, err := manager.GetCache().GetInformer(s.ctx, &corev1.Pod{}); err != nil {
		return nil, err
	}
	work := &reconciler{manager.GetClient(), manager.GetEventRecorderFor("greeter"), name}
	if err := work.register(manager); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(s.ctx)
	made := &leader{name: name, manager: manager, stop: stop, ended: make(chan error, 1)}
	go func() { made.ended <- manager.Start(ctx) }()
	return made, nil
}

// eventually asks until `holds`, or fails after `patience`.
func eventually(ctx context.Context, what string, holds func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if holds(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("never came true: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
