// What extends the API: definitions that change, web hooks, and statuses that are written in parts.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const gate = "greet.example.com/seen"

// redefine adds a field with a default to the definition, typed and in protobuf, and a version.
func redefine(s *stage) error {
	early := moody("early")
	if err := s.direct.Create(s.ctx, early); err != nil {
		return err
	}
	if mood, found, _ := unstructured.NestedString(early.Object, "spec", "mood"); found {
		return fmt.Errorf("a field that is not defined was kept: %q", mood)
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.addMood() })
	if err != nil {
		return err
	}
	err = eventually(s.ctx, "the new field is served", func(ctx context.Context) bool {
		late := moody("late-mood")
		if s.direct.Create(ctx, late, client.DryRunAll) != nil {
			return false
		}
		mood, _, _ := unstructured.NestedString(late.Object, "spec", "mood")
		return mood == "merry"
	})
	if err != nil {
		return err
	}
	wrong := moody("wrong")
	_ = unstructured.SetNestedField(wrong.Object, "odd", "spec", "mood")
	if err := s.direct.Create(s.ctx, wrong); !apierrors.IsInvalid(err) {
		return fmt.Errorf("a value outside of the new enum is not invalid: %v", err)
	}
	read := moody("early")
	read.SetAPIVersion(groupVersion.Group + "/v2")
	err = eventually(s.ctx, "the second version answers with the default", func(ctx context.Context) bool {
		if s.direct.Get(ctx, key("early"), read) != nil {
			return false
		}
		mood, _, _ := unstructured.NestedString(read.Object, "spec", "mood")
		return mood == "calm"
	})
	if err != nil {
		return err
	}
	return s.direct.Delete(s.ctx, early)
}

func moody(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": groupVersion.String(), "kind": "Greeting",
		"metadata": object{"name": name, "namespace": namespace},
		"spec":     object{"text": "hello", "mood": "merry"},
	}}
}

func (s *stage) addMood() error {
	found := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.direct.Get(s.ctx, client.ObjectKey{Name: "greetings." + groupVersion.Group}, found); err != nil {
		return err
	}
	established := false
	for _, condition := range found.Status.Conditions {
		established = established || condition.Type == apiextensionsv1.Established
	}
	if !established {
		return fmt.Errorf("the definition is not established: %v", found.Status.Conditions)
	}
	first := &found.Spec.Versions[0]
	spec := first.Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["mood"] = apiextensionsv1.JSONSchemaProps{
		Type:    "string",
		Enum:    []apiextensionsv1.JSON{{Raw: []byte(`"calm"`)}, {Raw: []byte(`"merry"`)}},
		Default: &apiextensionsv1.JSON{Raw: []byte(`"calm"`)},
	}
	first.Schema.OpenAPIV3Schema.Properties["spec"] = spec
	second := *first.DeepCopy()
	second.Name, second.Storage = "v2", false
	found.Spec.Versions = append(found.Spec.Versions, second)
	return s.direct.Update(s.ctx, found)
}

// partly writes conditions without times and reasons, as small controllers do; the kubelet copes.
func partly(s *stage) error {
	pod := &corev1.Pod{ObjectMeta: named("partly")}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx:1"}}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	if err := s.direct.Create(s.ctx, pod); err != nil {
		return err
	}
	before := pod.DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue})
	if err := s.direct.Status().Patch(s.ctx, pod, client.StrategicMergeFrom(before)); err != nil {
		return err
	}
	other := &corev1.Pod{ObjectMeta: named("other")}
	other.Spec.Containers = pod.Spec.Containers
	if err := s.direct.Create(s.ctx, other); err != nil {
		return err
	}
	wanted := []string{"partly", "other"}
	if s.bare {
		return errors.Join(s.direct.Delete(s.ctx, pod), s.direct.Delete(s.ctx, other))
	}
	for _, name := range wanted {
		err := eventually(s.ctx, name+" is ready", func(ctx context.Context) bool {
			found := &corev1.Pod{}
			if s.direct.Get(ctx, key(name), found) != nil {
				return false
			}
			return holds(found, corev1.PodReady) && (name == "other" || holds(found, gate))
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(s.direct.Delete(s.ctx, pod), s.direct.Delete(s.ctx, other))
}

func holds(pod *corev1.Pod, type_ corev1.PodConditionType) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == type_ {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// review runs a web hook of this program that changes some greetings and refuses others.
func review(s *stage) error {
	folder, err := os.MkdirTemp("", "greetings")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	authority, err := certify(folder)
	if err != nil {
		return err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	hooks := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: folder})
	decoder := admission.NewDecoder(s.scheme)
	hooks.Register("/polish", &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		return polish(decoder, request)
	})})
	hooks.Register("/judge", &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		return judge(decoder, request)
	})})
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- hooks.Start(ctx) }()
	mutating, validating := configurations(port, authority)
	if err := errors.Join(s.direct.Create(s.ctx, mutating), s.direct.Create(s.ctx, validating)); err != nil {
		return err
	}
	err = errors.Join(s.reviewed(), s.direct.Delete(s.ctx, mutating), s.direct.Delete(s.ctx, validating))
	stop()
	return errors.Join(err, <-ended)
}

func (s *stage) reviewed() error {
	err := eventually(s.ctx, "the hook changes greetings", func(ctx context.Context) bool {
		polite := &Greeting{ObjectMeta: named("polite"), Spec: GreetingSpec{Text: "hello"}}
		return s.direct.Create(ctx, polite, client.DryRunAll) == nil && polite.Annotations["polished"] == "yes"
	})
	if err != nil {
		return err
	}
	rude := &Greeting{ObjectMeta: named("rude"), Spec: GreetingSpec{Text: "rude"}}
	err = s.direct.Create(s.ctx, rude)
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("a refusal of the hook: %v", err)
	}
	wanted := `admission webhook "judge.greet.example.com" denied the request: be kind`
	if err.Error() != wanted {
		return fmt.Errorf("a refusal in other words: %v", err)
	}
	return nil
}

func polish(decoder admission.Decoder, request admission.Request) admission.Response {
	greeting := &Greeting{}
	if err := decoder.Decode(request, greeting); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	return admission.Patched("", jsonpatch.NewOperation("add", "/metadata/annotations", object{"polished": "yes"}))
}

func judge(decoder admission.Decoder, request admission.Request) admission.Response {
	greeting := &Greeting{}
	if err := decoder.Decode(request, greeting); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if greeting.Spec.Text == "rude" {
		return admission.Denied("be kind")
	}
	return admission.Allowed("")
}

func configurations(port int, authority []byte) (client.Object, client.Object) {
	none, policy := admissionv1.SideEffectClassNone, admissionv1.Fail
	rules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{
			APIGroups: []string{groupVersion.Group}, APIVersions: []string{"v1"}, Resources: []string{"greetings"},
		},
	}}
	at := func(path string) admissionv1.WebhookClientConfig {
		url := fmt.Sprintf("https://127.0.0.1:%d%s", port, path)
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: authority}
	}
	meta := metav1.ObjectMeta{Name: "greetings"}
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "polish.greet.example.com", ClientConfig: at("/polish"), Rules: rules, SideEffects: &none,
		FailurePolicy: &policy, AdmissionReviewVersions: []string{"v1"},
	}}}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "judge.greet.example.com", ClientConfig: at("/judge"), Rules: rules, SideEffects: &none,
		FailurePolicy: &policy, AdmissionReviewVersions: []string{"v1"},
	}}}
	return mutating, validating
}

// certify writes tls.crt and tls.key for 127.0.0.1; it returns the certificate, its own authority.
func certify(folder string) ([]byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "greetings"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1")},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, err
	}
	certificate, pair := &bytes.Buffer{}, &bytes.Buffer{}
	err = errors.Join(
		pem.Encode(certificate, &pem.Block{Type: "CERTIFICATE", Bytes: made}),
		pem.Encode(pair, &pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}),
		os.WriteFile(filepath.Join(folder, "tls.crt"), certificate.Bytes(), 0o600),
		os.WriteFile(filepath.Join(folder, "tls.key"), pair.Bytes(), 0o600),
	)
	return certificate.Bytes(), err
}
