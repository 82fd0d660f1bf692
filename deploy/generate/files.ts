import { stringify } from 'yaml';
import { type KindName, kinds } from '../../api/kinds.ts';
import type { KindDefinition } from '../../api/schema/kind.ts';
import { crdOf } from './crd.ts';
import { rbacFiles } from './rbac.ts';
import { featureGateReference, referenceOf } from './reference.ts';
import { watcherPolicyFile } from './watcher-policy.ts';
import { webhooksFile } from './webhooks.ts';

/** A generated file, by its path from the top of the repository. */
export interface GeneratedFile {
  readonly path: string;
  readonly content: string;
}

/** The folders in which every file is generated, except those in `writtenByPeople`. */
export const generatedFolders = ['deploy/crds', 'deploy/rbac', 'deploy/webhooks', 'docs/reference'] as const;

/**
 * Files in these folders that are written by hand: limits have reasons, which no schema contains (a test compares the
 * page with the code), and policies contain their own expressions.
 */
const writtenByPeople: readonly string[] = [
  'deploy/rbac/daemon-image-policy.yaml',
  'deploy/rbac/daemon-node-policy.yaml',
  'deploy/rbac/daemon-probe-policy.yaml',
  'deploy/rbac/installation.yaml',
  'deploy/rbac/namespace.yaml',
  'deploy/rbac/webhook-dry-run.yaml',
  'deploy/rbac/worker-policy.yaml',
  'docs/reference/limits.md',
];

/** The base name of each kind's reference page, which is that of its page in docs/kinds and of its folder in api/. */
const pageNames: Readonly<Record<KindName, string>> = {
  ContainerRecreateRequest: 'container-recreate-request',
  CloneSet: 'cloneset',
  PodProbeMarker: 'pod-probe-marker',
  NodePodProbe: 'node-pod-probe',
  ImageListPullJob: 'image-list-pull-job',
  ImagePullJob: 'image-pull-job',
  NodeImage: 'node-image',
  SidecarSet: 'sidecar-set',
  StatefulSet: 'stateful-set',
  DaemonSet: 'daemon-set',
};

/** All generated files with their expected content. */
export function generatedFiles(): readonly GeneratedFile[] {
  const ofKinds = Object.entries(kinds).flatMap(([name, kind]) => filesOf(kind, pageNames[name as KindName]));
  return [
    ...ofKinds,
    ...rbacFiles(),
    { path: 'deploy/rbac/watcher-policy.yaml', content: watcherPolicyFile() },
    { path: 'deploy/webhooks/webhooks.yaml', content: webhooksFile() },
    { path: 'docs/reference/feature-gates.md', content: featureGateReference() },
  ];
}

function filesOf(kind: KindDefinition, pageName: string): readonly GeneratedFile[] {
  const yaml = stringify(crdOf(kind), { lineWidth: 120, aliasDuplicateObjects: false });
  return [
    {
      path: `deploy/crds/${kind.group}_${kind.plural}.yaml`,
      content: `# Written by \`npm run generate\` from the schema in api/. Change it there.\n${yaml}`,
    },
    { path: `docs/reference/${pageName}.md`, content: referenceOf(kind) },
  ];
}

/** A file that differs from its expected content, as text. */
export interface Drift {
  readonly path: string;
  readonly what: string;
}

/**
 * Compares the expected files with the existing ones: `present` is every file in the generated folders, by path. Files
 * written by hand are no drift.
 */
export function driftOf(wanted: readonly GeneratedFile[], present: ReadonlyMap<string, string>): readonly Drift[] {
  const paths = new Set(wanted.map(({ path }) => path));
  return [
    ...wanted.flatMap(({ path, content }) => differences(path, content, present.get(path))),
    ...[...present.keys()]
      .filter((path) => !paths.has(path) && !writtenByPeople.includes(path))
      .map((path) => ({ path, what: 'nothing generates it' })),
  ];
}

function differences(path: string, wanted: string, present: string | undefined): readonly Drift[] {
  if (present === wanted) return [];
  if (present === undefined) return [{ path, what: 'missing' }];
  const wantedLines = wanted.split('\n');
  const presentLines = present.split('\n');
  const first = wantedLines.findIndex((line, index) => line !== presentLines[index]);
  const line = first < 0 ? wantedLines.length : first;
  return [
    {
      path,
      what: [
        `${wantedLines.length} lines instead of ${presentLines.length}, the first difference in line ${line + 1}`,
        `  - ${presentLines[line] ?? '(end)'}`,
        `  + ${wantedLines[line] ?? '(end)'}`,
      ].join('\n'),
    },
  ];
}
