import { enumerated } from '../../api/base/enumerated.ts';
import { cloneSetMark, cloneSets } from '../../api/cloneset/types.ts';
import { launchMark } from '../../api/container-launch-priority.ts';
import { group, installation, windlassAnnotation } from '../../api/core/well-known.ts';
import { daemonSets } from '../../api/daemon-set/types.ts';
import { fleetResources, workloadKindNames } from '../../api/fleet/fleet-kinds.ts';
import { injectedEnv, injectedListAnnotation, sidecarSetLabel } from '../../api/sidecar-set/marks.ts';
import { sidecarSets } from '../../api/sidecar-set/types.ts';
import { statefulSetMark, statefulSets } from '../../api/stateful-set/types.ts';
import { explained, yamlOf } from './yaml.ts';

/** The policies that limit what the watcher writes to what belongs to Windlass. */
export function watcherPolicyFile(): string {
  return yamlOf([configMaps, pods, podStatus, sets, pvcs, revisions].flatMap(policyOf), {
    about:
      'Whoever may write ConfigMaps, pods, and what pods are made from, in every namespace, may do nearly everything. The ' +
      `watcher has to write those that belong to ${controllers}, the sidecars of SidecarSets in others, and what belongs to ` +
      'the order in which containers start; these policies take away the rest of these rights. Templates are written by users ' +
      'alone.\n\nWhat a mutating webhook of somebody else changes in a write of the watcher counts as written by the watcher.',
    source: 'deploy/generate/watcher-policy.ts',
  });
}

interface Policy {
  readonly name: string;
  /** Absent of it: the core group, v1, everything that writes. */
  readonly rule: {
    readonly apiGroups?: readonly string[];
    readonly apiVersions?: readonly string[];
    readonly operations?: readonly string[];
    readonly resources: readonly string[];
  };
  readonly matchConditions?: readonly object[];
  readonly variables?: readonly object[];
  readonly validations: readonly object[];
}

const { namespace, recordConfigMap } = installation;
const { command, rollOut } = windlassAnnotation;
const written = "(request.operation == 'CREATE' ? object : oldObject)";

const controllers = anyOf(workloadKindNames);

function anyOf(kinds: readonly string[]): string {
  return enumerated(
    kinds.map((kind) => `a ${kind}`),
    'or',
  );
}

function ownersOf(object: string): string {
  return `${object}.metadata.?ownerReferences.orValue([])`;
}

/** Whether an object has a controller of which this is true. */
function isControlled(object: string, condition?: string): string {
  const conditions = ['owner.?controller.orValue(false)', ...(condition === undefined ? [] : [condition])];
  return `${ownersOf(object)}.exists(owner, ${conditions.join(' && ')})`;
}

/** Whether the name of an object is this one with an ordinal (AS-10). */
function isNameAt(object: string, name: string): string {
  return (
    `${object}.metadata.name.startsWith(${name} + '-') && ` +
    `${object}.metadata.name.substring(${name}.size() + 1).matches('^[0-9]+$')`
  );
}

const isOurs = `owner.apiVersion.startsWith('${group.apps}/')`;
const isAdopter =
  `owner.kind == '${daemonSets.kind}' || ` +
  `(owner.kind == '${statefulSets.kind}' && ${isNameAt('object', 'owner.name')})`;
const isWorkload = `${isOurs} && owner.kind in [${workloadKindNames.map((kind) => `'${kind}'`).join(', ')}]`;

/** These fields are as they were. */
function same(...fields: readonly string[]): string {
  return fields.map((field) => `object.${field} == oldObject.${field}`).join(' && ');
}

/** All fields of an object are as they were, also those that a later version of the API has, except these. */
function unchanged(now: string, before: string, except: string): string {
  return (
    `dyn(${now}).all(field, field == '${except}' || ` +
    `(field in dyn(${before}) && dyn(${now})[field] == dyn(${before})[field])) && ` +
    `dyn(${before}).all(field, field == '${except}' || field in dyn(${now}))`
  );
}

const configMaps: Policy = {
  name: 'windlass-watcher-configmaps',
  rule: { resources: ['configmaps'] },
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

const injectedList = (object: string) => `${object}.metadata.?annotations[?'${injectedListAnnotation}'].orValue('')`;

const pods: Policy = {
  name: 'windlass-watcher-pods',
  rule: { resources: ['pods', 'pods/resize'] },
  variables: [
    { name: 'pod', expression: "request.operation == 'CREATE' ? object : oldObject" },
    explained(
      {
        name: 'onlyRemovesCommand',
        expression:
          "request.operation == 'UPDATE' && object.spec == oldObject.spec && " +
          `${same('metadata.?labels', 'metadata.?finalizers', 'metadata.?ownerReferences')} && ` +
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
          `${same('metadata.?labels', 'metadata.?finalizers', 'metadata.?ownerReferences')} && ` +
          `${unchanged('object.spec', 'oldObject.spec', 'containers')} && ` +
          'object.spec.containers.all(now, oldObject.spec.containers.exists(before, before.name == now.name && ' +
          `${unchanged('now', 'before', 'image')} && ` +
          '(before.image == now.image || before.?env.orValue([]).exists(variable, ' +
          `variable.name == '${injectedEnv.name}'))))`,
      },
      'The images of sidecars, and annotations, of pods that list a SidecarSet. Nothing else of the pod changes.',
    ),
    explained(
      {
        name: 'onlyAdopts',
        expression:
          `request.operation == 'UPDATE' && !${isControlled('oldObject')} && ` +
          `${isControlled('object', `${isOurs} && (${isAdopter})`)} && ` +
          'object.spec == oldObject.spec && ' +
          `${same('metadata.?labels', 'metadata.?annotations', 'metadata.?finalizers')} && ` +
          `${ownersOf('oldObject')}.all(owner, owner in ${ownersOf('object')}) && ` +
          `${ownersOf('object')}.size() == ${ownersOf('oldObject')}.size() + 1`,
      },
      'A pod without a controller becomes that of a DaemonSet, or of the StatefulSet whose name it has. Nothing else of the pod ' +
        'changes.',
    ),
  ],
  validations: [
    {
      expression:
        'variables.onlyRemovesCommand || variables.onlyUpdatesSidecars || variables.onlyAdopts || ' +
        isControlled('variables.pod', isWorkload),
      message:
        `the watcher may only write pods that ${controllers} controls, images of sidecars that were injected, adopt pods for ` +
        `StatefulSets and DaemonSets, and remove the annotation ${command}`,
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

const podStatus: Policy = {
  name: 'windlass-watcher-pod-status',
  rule: { operations: ['UPDATE'], resources: ['pods/status'] },
  validations: [
    explained(
      {
        expression: unchanged('object.status', 'oldObject.status', 'conditions'),
        message: 'of the status of a pod the watcher may only write conditions',
        reason: 'Forbidden',
      },
      'A pod whose phase is Failed is ended by its kubelet, and replaced by its controller.',
    ),
    {
      expression: same('metadata.?finalizers'),
      message: 'the watcher may not write finalizers through the status of a pod',
      reason: 'Forbidden',
    },
  ],
};

const sets: Policy = {
  name: 'windlass-watcher-sets',
  rule: {
    apiGroups: [group.apps],
    // Each version is compared as it is written, so that no conversion has to answer.
    apiVersions: ['*'],
    operations: ['UPDATE'],
    resources: fleetResources.map(({ plural }) => plural),
  },
  variables: [
    { name: 'after', expression: 'object.metadata.?annotations.orValue({})' },
    { name: 'before', expression: 'oldObject.metadata.?annotations.orValue({})' },
    { name: 'scaleAfter', expression: 'object.spec.?scaleStrategy.orValue({})' },
    { name: 'scaleBefore', expression: 'oldObject.spec.?scaleStrategy.orValue({})' },
  ],
  validations: [
    explained(
      {
        expression:
          `${unchanged('object.spec', 'oldObject.spec', 'scaleStrategy')} && ` +
          unchanged('variables.scaleAfter', 'variables.scaleBefore', 'podsToDelete'),
        message: 'of a spec the watcher may only write scaleStrategy.podsToDelete',
        reason: 'Forbidden',
      },
      'Names of pods that are gone are removed from it.',
    ),
    {
      expression:
        `variables.after.all(key, key == '${rollOut}' || ` +
        '(key in variables.before && variables.before[key] == variables.after[key])) && ' +
        `variables.before.all(key, key in ['${rollOut}', '${command}'] || key in variables.after)`,
      message: `of annotations the watcher may only write ${rollOut} and remove ${command}`,
      reason: 'Forbidden',
    },
    {
      expression: same('metadata.?labels', 'metadata.?finalizers', 'metadata.?ownerReferences'),
      message: `the watcher may not write labels, finalizers and owners of ${anyOf(fleetResources.map(({ kind }) => kind))}`,
      reason: 'Forbidden',
    },
  ],
};

/** The StatefulSet or the pod to which a PVC belongs by its name, `<template>-<StatefulSet>-<ordinal>` (AS-80). */
const isOwnerAtOrdinal =
  '(!owner.?controller.orValue(false) && ' +
  `((owner.kind == '${statefulSets.kind}' && ${isOurs} && variables.pvc.metadata.name.matches('-' + owner.name + '-[0-9]+$')) || ` +
  "(owner.kind == 'Pod' && owner.apiVersion == 'v1' && variables.pvc.metadata.name.endsWith('-' + owner.name))))";

const pvcs: Policy = {
  name: 'windlass-watcher-pvcs',
  rule: { resources: ['persistentvolumeclaims'] },
  variables: [
    { name: 'pvc', expression: written },
    { name: 'before', expression: `request.operation == 'CREATE' ? [] : ${ownersOf('oldObject')}` },
    { name: 'after', expression: ownersOf('object') },
    { name: 'notes', expression: 'object.metadata.?annotations.orValue({})' },
    { name: 'notesBefore', expression: 'oldObject.metadata.?annotations.orValue({})' },
    explained(
      {
        name: 'belongsToOrdinal',
        expression:
          "request.operation != 'DELETE' && variables.pvc.metadata.name.matches('^.+-[0-9]+$') && " +
          `variables.before.all(owner, owner in variables.after || ${isOwnerAtOrdinal}) && ` +
          `variables.after.all(owner, owner in variables.before || ${isOwnerAtOrdinal})`,
      },
      'No StatefulSet controls its PVCs: these are known by their names alone, and outlive it. Of their owners the StatefulSet ' +
        'and the pod come and go. Those of others stay.',
    ),
  ],
  validations: [
    explained(
      {
        expression:
          `${isControlled('variables.pvc', `${isOurs} && owner.kind == '${cloneSets.kind}'`)} || ` +
          'variables.belongsToOrdinal || ' +
          `(request.operation == 'DELETE' && '${cloneSetMark.instanceId}' in variables.pvc.metadata.?labels.orValue({}) && ` +
          `${isControlled('variables.pvc', "owner.kind == 'Pod' && owner.apiVersion == 'v1'")})`,
        message:
          `the watcher may only write PVCs that a ${cloneSets.kind} controls, delete those that went to its pods, and create ` +
          'those of StatefulSets and write their StatefulSet and pod as owners',
        reason: 'Forbidden',
      },
      'The PVC of a pod that is going is handed over to the pod.',
    ),
    {
      expression: `request.operation != 'UPDATE' || (${same('metadata.?labels', 'metadata.?finalizers')})`,
      message: 'of a PVC the watcher may not write labels and finalizers',
      reason: 'Forbidden',
    },
    explained(
      {
        expression:
          `request.operation != 'UPDATE' || (${same('spec', 'metadata.?annotations')}) || ` +
          `(variables.belongsToOrdinal && ${unchanged('object.spec', 'oldObject.spec', 'resources')} && ` +
          `${unchanged('variables.notes', 'variables.notesBefore', statefulSetMark.claimOf)} && ` +
          "authorizer.group('').resource('persistentvolumeclaims').namespace(object.metadata.namespace)" +
          ".check('resize').allowed())",
        message: 'of a PVC the watcher may only write owners, and resources where it has the right resize',
        reason: 'Forbidden',
      },
      'The right stands in deploy/rbac-gates/StatefulSetAutoResizePVCGate.yaml.',
    ),
  ],
};

const setNameIn = (object: string) => `${object}.metadata.?labels[?'${sidecarSetLabel.name}'].orValue('')`;

const revisions: Policy = {
  name: 'windlass-watcher-revisions',
  rule: { apiGroups: ['apps'], resources: ['controllerrevisions'] },
  variables: [
    { name: 'revision', expression: written },
    explained(
      {
        name: 'setName',
        expression: `request.namespace == '${namespace}' ? ${setNameIn('variables.revision')} : ''`,
      },
      'Where admission looks for what it injects.',
    ),
  ],
  validations: [
    explained(
      {
        expression:
          "(variables.setName == '' ? " +
          `${isControlled('variables.revision', isWorkload)} : ` +
          `${isControlled('variables.revision', `${isOurs} && owner.kind == '${sidecarSets.kind}' && owner.name == variables.setName`)}) || ` +
          "(request.operation != 'CREATE' && " +
          `!${isControlled('variables.revision')})`,
        message:
          `the watcher may only write ControllerRevisions that ${controllers} controls, or the ${sidecarSets.kind} that ` +
          'their label names, or nobody',
        reason: 'Forbidden',
      },
      'Those of nobody are what a deletion with --cascade=orphan has left: they are used and removed like its own.',
    ),
    {
      expression:
        `request.operation != 'UPDATE' || (${setNameIn('object')} == ${setNameIn('oldObject')} && ` +
        `${same('metadata.?finalizers', 'metadata.?ownerReferences')})`,
      message: `the watcher may not write finalizers, owners and the label ${sidecarSetLabel.name} of a ControllerRevision`,
      reason: 'Forbidden',
    },
  ],
};

/** The policy, and its binding. */
function policyOf({ name, rule: given, matchConditions = [], variables, validations }: Policy): readonly object[] {
  const apiVersion = 'admissionregistration.k8s.io/v1';
  const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE', 'DELETE'], ...given };
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
