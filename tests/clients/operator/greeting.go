// The kind of this program, its definition for the API server, and its deep copies.
package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "greet.example.com", Version: "v1"}

// Greeting asks for a ConfigMap with its text.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GreetingSpec   `json:"spec,omitempty"`
	Status            GreetingStatus `json:"status,omitempty"`
}

type GreetingSpec struct {
	Text string `json:"text"`
	Loud bool   `json:"loud,omitempty"`
}

type GreetingStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Ready              bool  `json:"ready,omitempty"`
	// By tells which of the two managers wrote this.
	By string `json:"by,omitempty"`
}

type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Greeting `json:"items"`
}

func (g *Greeting) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (l *GreetingList) DeepCopyObject() runtime.Object {
	out := GreetingList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Greeting))
	}
	return &out
}

func addGreetings(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Greeting{}, &GreetingList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}

type object = map[string]any

func definition() *unstructured.Unstructured {
	properties := object{
		"spec": object{
			"type":     "object",
			"required": []any{"text"},
			"properties": object{
				"text": object{"type": "string", "minLength": int64(1)},
				"loud": object{"type": "boolean"},
			},
		},
		"status": object{
			"type": "object",
			"properties": object{
				"observedGeneration": object{"type": "integer", "format": "int64"},
				"ready":              object{"type": "boolean"},
				"by":                 object{"type": "string"},
			},
		},
	}
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   object{"name": "greetings." + groupVersion.Group},
		"spec": object{
			"group": groupVersion.Group,
			"scope": "Namespaced",
			"names": object{"plural": "greetings", "singular": "greeting", "kind": "Greeting", "listKind": "GreetingList"},
			"versions": []any{object{
				"name": groupVersion.Version, "served": true, "storage": true,
				"subresources": object{"status": object{}},
				"schema":       object{"openAPIV3Schema": object{"type": "object", "properties": properties}},
			}},
		},
	}}
}
