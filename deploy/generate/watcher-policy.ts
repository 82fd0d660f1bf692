import { launchMark } from '../../api/container-launch-priority.ts';
import { group, installation, windlassAnnotation } from '../../api/core/well-known.ts';
import { workloadKindNames } from '../../api/fleet/fleet-kinds.ts';
import { injectedEnv, injectedListAnnotation } from '../../api/sidecar-set/marks.ts';
import { explained, yamlOf } from './yaml.ts';

/** The policies that limit what the watcher writes to what belongs to Windlass. */
export function watcherPolicyFile(): string {
  return yamlOf([...policyOf(configMaps), ...policyOf(pods)], {
    about:
      'Whoever may write pods and ConfigMaps of every namespace may do nearly everything. The watcher has to write those ' +
      `that belong to a ${workloadKindNames.join(' or a ')}, the sidecars of SidecarSets in others, and what belongs to the ` +
      'order in which containers start; these policies take away the rest of the two rights.',
    source: 'deploy/generate/watcher-policy.ts',
  });
}

interface Policy {
  readonly name: string;
  readonly resources: readonly string[];
  readonly matchConditions?: readonly object[];
  readonly variables?: readonly object[];
  readonly validations: readonly object[];
}

const { namespace, recordConfigMap } = installation;
const { command } = windlassAnnotation;
const written = "(request.operation == 'CREATE' ? object : oldObject)";

const configMaps: Policy = {
  name: 'windlass-watcher-configmaps',
  resources: ['configmaps'],
  matchConditions: [
    {
      name: 'not-its-own',
      expression: `!(request.namespace == '${namespace}' && ${written}.metadata.name == '${recordConfigMap}')`,
    },
  ],
  validations: [
    {
      expression: `${written}.metadata.name.endsWith('-barrier')`,
      message: 'the watcher may only write ConfigMaps whose names end with -barrier',
      reason: 'Forbidden',
    },
    {
      expression: `request.operation == 'DELETE' || object.metadata.?labels[?'${launchMark.barrier}'].orValue('') == 'true'`,
      message: `the watcher may only write ConfigMaps with the label ${launchMark.barrier}=true`,
      reason: 'Forbidden',
    },
  ],
};

const isFleet = workloadKindNames.map((kind) => `owner.kind == '${kind}'`).join(' || ');

const injectedList = (object: string) => `${object}.metadata.?annotations[?'${injectedListAnnotation}'].orValue('')`;

/** What an update of sidecars leaves alone, of all that the API server lets change in a pod. */
const sameFields = [
  ...['metadata.?labels', 'metadata.?finalizers', 'metadata.?ownerReferences', 'spec.?initContainers'],
  ...['spec.?tolerations', 'spec.?activeDeadlineSeconds', 'spec.?terminationGracePeriodSeconds'],
] as const;

const pods: Policy = {
  name: 'windlass-watcher-pods',
  resources: ['pods', 'pods/resize'],
  variables: [
    { name: 'pod', expression: "request.operation == 'CREATE' ? object : oldObject" },
    explained(
      {
        name: 'onlyRemovesCommand',
        expression:
          "request.operation == 'UPDATE' && object.spec == oldObject.spec && " +
          'object.metadata.?labels == oldObject.metadata.?labels && ' +
          'object.metadata.?finalizers == oldObject.metadata.?finalizers && ' +
          'object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences && ' +
          'object.metadata.?annotations.orValue({}).all(key, key in oldObject.metadata.?annotations.orValue({}) && ' +
          'object.metadata.annotations[key] == oldObject.metadata.annotations[key]) && ' +
          `oldObject.metadata.?annotations.orValue({}).all(key, key == '${command}' || ` +
          'key in object.metadata.?annotations.orValue({}))',
      },
      'A command in an annotation is removed when it has been passed on, of whatever pod.',
    ),
    explained(
      {
        name: 'onlyUpdatesSidecars',
        expression:
          `request.operation == 'UPDATE' && ${injectedList('oldObject')} != '' && ` +
          `${injectedList('object')} == ${injectedList('oldObject')} && ` +
          sameFields.map((field) => `object.${field} == oldObject.${field}`).join(' && ') +
          ' && object.spec.containers.all(now, oldObject.spec.containers.exists(before, before.name == now.name && ' +
          '(before.image == now.image || before.?env.orValue([]).exists(variable, ' +
          `variable.name == '${injectedEnv.name}'))))`,
      },
      'The images of sidecars, and annotations, of pods that list a SidecarSet. Nothing else of running containers changes.',
    ),
  ],
  validations: [
    {
      expression:
        'variables.onlyRemovesCommand || variables.onlyUpdatesSidecars || variables.pod.metadata.?ownerReferences.orValue([]).exists(owner, ' +
        `owner.?controller.orValue(false) && ${workloadKindNames.length > 1 ? `(${isFleet})` : isFleet} && ` +
        `owner.apiVersion.startsWith('${group.apps}/'))`,
      message:
        `the watcher may only write pods that a ${workloadKindNames.join(' or a ')} controls, images of sidecars that were ` +
        `injected, and remove the annotation ${command}`,
      reason: 'Forbidden',
    },
    explained(
      {
        expression:
          `request.operation != 'CREATE' || request.namespace != '${namespace}' || ` +
          "namespaceObject.metadata.?labels[?'windlass.io/workloads'].orValue('') == 'allowed'",
        message:
          `the watcher may only create pods in ${namespace} where the namespace has the label ` +
          'windlass.io/workloads=allowed',
        reason: 'Forbidden',
      },
      'ServiceAccounts of this namespace are those of Windlass itself: a pod there has their token.',
    ),
  ],
};

/** The policy, and its binding. */
function policyOf({ name, resources, matchConditions = [], variables, validations }: Policy): readonly object[] {
  const apiVersion = 'admissionregistration.k8s.io/v1';
  const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE', 'DELETE'], resources };
  const isWatcher = `request.userInfo.username == 'system:serviceaccount:${namespace}:windlass-watcher'`;
  return [
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name },
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: { resourceRules: [rule] },
        matchConditions: [{ name: 'is-watcher', expression: isWatcher }, ...matchConditions],
        ...(variables && { variables }),
        validations,
      },
    },
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata: { name },
      spec: { policyName: name, validationActions: ['Deny'] },
    },
  ];
}
