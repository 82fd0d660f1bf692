/** How the API server treats the objects of one collection. */
export interface Traits {
  /** As in refusals: `clonesets.apps.kruise.io`, `pods`. */
  readonly name: string;
  /** The status is written through its subresource alone. */
  readonly hasStatus: boolean;
  /** Counts changes of everything but metadata and status. */
  readonly hasGeneration: boolean;
  /** Takes strategic merge patches. Its status is written together with its metadata, which custom resources ignore. */
  readonly isBuiltIn: boolean;
  /** What field selectors may name beyond name and namespace. */
  readonly fields: 'any' | readonly string[];
  /** Top-level fields that never change. */
  readonly immutable: readonly string[];
}

type Particular = Partial<Omit<Traits, 'name' | 'isBuiltIn'>>;

const eventFields = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath'].map(
  (field) => `involvedObject.${field}`,
);

const builtIn: Readonly<Record<string, Particular>> = {
  pods: {
    hasStatus: true,
    hasGeneration: true,
    fields: ['spec.nodeName', 'spec.restartPolicy', 'spec.schedulerName', 'status.phase', 'status.podIP'],
  },
  nodes: { hasStatus: true },
  namespaces: { hasStatus: true, fields: ['status.phase'] },
  services: { hasStatus: true },
  persistentvolumeclaims: { hasStatus: true },
  events: { fields: [...eventFields, 'reason', 'type', 'reportingComponent'] },
  secrets: { fields: ['type'], immutable: ['type'] },
  'controllerrevisions.apps': { immutable: ['data'] },
  'endpointslices.discovery.k8s.io': { hasGeneration: true },
  'customresourcedefinitions.apiextensions.k8s.io': { hasStatus: true, hasGeneration: true },
  'mutatingwebhookconfigurations.admissionregistration.k8s.io': { hasGeneration: true },
  'validatingwebhookconfigurations.admissionregistration.k8s.io': { hasGeneration: true },
};

const plain = { hasStatus: false, hasGeneration: false, fields: [], immutable: [] };
// Every kind of Windlass's own has the subresource; see deploy/crds.
const custom = { hasStatus: true, hasGeneration: true, fields: [], immutable: [] };
/** The group of kinds that exist in tests alone; every field of theirs is selectable. */
const testGroup = 'test.io';

/** The traits of a collection such as `/api/v1/pods` or `/apis/apps.kruise.io/v1beta1/clonesets`. */
export function traitsOf(collection: string): Traits {
  const parts = collection.split('/').slice(1);
  const [group = '', plural = ''] = parts[0] === 'api' ? ['', parts[2]] : [parts[1], parts[3]];
  const name = group === '' ? plural : `${plural}.${group}`;
  const isBuiltIn = !group.includes('.') || group.endsWith('.k8s.io');
  if (isBuiltIn) return { name, isBuiltIn, ...plain, ...builtIn[name] };
  return { name, isBuiltIn, ...custom, ...(group === testGroup && { fields: 'any' as const }) };
}
