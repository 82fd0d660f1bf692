// How kwok simulates kubelets: what happens to a node or a pod that matches a stage's selector. Selectors are jq,
// templates are Go's. The simulated kubelet runs containers a moment after the pod has a node, restarts (or resizes)
// them after each change of the spec, makes them ready at once, and makes the pod ready when they are and its readiness
// gates are True.

/** A Stage object of kwok. */
export interface Stage {
  readonly apiVersion: 'kwok.x-k8s.io/v1alpha1';
  readonly kind: 'Stage';
  readonly metadata: { readonly name: string };
  readonly spec: object;
}

/** How long steps take on a simulated node, in milliseconds; each at random between these. */
export interface KubeletPace {
  readonly start: Span;
  readonly restart: Span;
  readonly end: Span;
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** About the times of a kubelet with small images that are on the node already. */
export const usualPace: KubeletPace = {
  start: { from: 800, to: 1600 },
  restart: { from: 800, to: 1600 },
  end: { from: 300, to: 800 },
};

/** All stages that nodes and pods need. */
export function stages(pace: KubeletPace): readonly Stage[] {
  return [
    stage('node-ready', 'Node', {
      selector: [
        { key: '.status.conditions.[] | select(.type == "Ready") | .status', operator: 'NotIn', values: ['True'] },
      ],
      template: nodeTemplate,
    }),
    stage('pod-start', 'Pod', {
      selector: [alive, { key: '.status.podIP', operator: 'DoesNotExist' }],
      delay: pace.start,
      template: startTemplate,
    }),
    stage('pod-follow-spec', 'Pod', {
      selector: [alive, isThere, isTrue(changed)],
      delay: pace.restart,
      template: followTemplate,
    }),
    stage('pod-readiness', 'Pod', {
      selector: [alive, isThere, isTrue(`(${changed} | not) and (${gatesOpen}) != (${ready})`)],
      template: `{{ $root := . }}\nconditions:\n${readyCondition}`,
    }),
    stage('pod-end', 'Pod', {
      selector: [
        { key: '.metadata.deletionTimestamp', operator: 'Exists' },
        { key: '.metadata.finalizers', operator: 'DoesNotExist' },
      ],
      delay: pace.end,
    }),
  ];
}

interface Expression {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  readonly values?: readonly string[];
}

function stage(
  name: string,
  kind: 'Node' | 'Pod',
  given: {
    readonly selector: readonly Expression[];
    readonly delay?: Span;
    /** The template of the status. Absent: the object is deleted. */
    readonly template?: string;
  },
): Stage {
  const { selector, delay, template } = given;
  return {
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'Stage',
    metadata: { name },
    spec: {
      resourceRef: { apiGroup: 'v1', kind },
      selector: { matchExpressions: selector },
      ...(delay && { delay: { durationMilliseconds: delay.from, jitterDurationMilliseconds: delay.to } }),
      next: template === undefined ? { delete: true } : { statusTemplate: template },
    },
  };
}

const alive: Expression = { key: '.metadata.deletionTimestamp', operator: 'DoesNotExist' };
const isThere: Expression = { key: '.status.podIP', operator: 'Exists' };

function isTrue(key: string): Expression {
  return { key, operator: 'In', values: ['true'] };
}

/** The spec is newer than the generation that the kubelet has reported; not a change of labels or annotations. */
const changed = '(.metadata.generation != .status.observedGeneration)';

const ready = '[.status.conditions[]? | select(.type == "Ready") | .status] == ["True"]';

const gatesOpen =
  '[.spec.readinessGates[]?.conditionType] - [.status.conditions[]? | select(.status == "True") | .type] | length == 0';

const now = '{{ Now | Quote }}';

/** Ready, as a kubelet reports a pod with ready containers: when all of its gates are True. */
const readyCondition = `{{ $open := true }}
{{ range $gate := $root.spec.readinessGates }}
{{ $met := false }}
{{ range $root.status.conditions }}
{{ if and (eq .type $gate.conditionType) (eq .status "True") }}{{ $met = true }}{{ end }}
{{ end }}
{{ if not $met }}{{ $open = false }}{{ end }}
{{ end }}
- type: Ready
  lastProbeTime: null
  lastTransitionTime: ${now}
  observedGeneration: {{ $root.metadata.generation }}
{{ if $open }}
  status: "True"
  reason: ""
  message: ""
{{ else }}
  status: "False"
  reason: ReadinessGatesNotReady
  message: "a readiness gate is not open"
{{ end }}
`;

function condition(type: string): string {
  return `- type: ${type}
  lastProbeTime: null
  lastTransitionTime: ${now}
  status: "True"
`;
}

const nextId = '{{ printf "%s/%s/%d" $root.metadata.uid $item.name $restarts | sha256sum }}';
/** In containerd's format: the full name, with the digest. */
const image = `
  image: {{ $item.image | Quote }}
  imageID: {{ printf "docker.io/library/%s@sha256:%s" $item.image ($item.image | sha256sum) | Quote }}`;
const resources = `
  resources: {{ $item.resources | default dict | toJson }}
{{ with $item.resources }}{{ with .requests }}
  allocatedResources: {{ . | toJson }}
{{ end }}{{ end }}`;

const startTemplate = `{{ $root := . }}
phase: Running
observedGeneration: {{ .metadata.generation }}
startTime: ${now}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) | Quote }}
conditions:
${condition('PodReadyToStartContainers')}${condition('Initialized')}${condition('ContainersReady')}${readyCondition}
containerStatuses:
{{ range $index, $item := .spec.containers }}
{{ $restarts := 0 }}
- name: {{ $item.name | Quote }}${image}
  containerID: containerd://${nextId}
  restartCount: 0
  ready: true
  started: true
  state: { running: { startedAt: ${now} } }${resources}
{{ end }}
`;

const followTemplate = `{{ $root := . }}
observedGeneration: {{ .metadata.generation }}
conditions:
${condition('ContainersReady')}${readyCondition}
containerStatuses:
{{ range $index, $item := .spec.containers }}
{{ $before := index $root.status.containerStatuses $index }}
{{ if eq $before.image $item.image }}
- {{ omit $before "resources" "allocatedResources" | toJson | trimSuffix "}" }}, "resources": {{ $item.resources | default dict | toJson }}{{ with $item.resources }}{{ with .requests }}, "allocatedResources": {{ . | toJson }}{{ end }}{{ end }} }
{{ else }}
{{ $restarts := add1 $before.restartCount }}
- name: {{ $item.name | Quote }}${image}
  containerID: containerd://${nextId}
  restartCount: {{ $restarts }}
  ready: true
  started: true
  state: { running: { startedAt: ${now} } }
  lastState:
    terminated:
      exitCode: 0
      reason: Completed
      containerID: {{ $before.containerID | Quote }}
      startedAt: {{ $before.state.running.startedAt | Quote }}
      finishedAt: ${now}${resources}
{{ end }}
{{ end }}
`;

const nodeTemplate = `conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: ${now}
  lastTransitionTime: ${now}
{{ end }}
phase: Running
`;
