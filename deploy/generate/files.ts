import { stringify } from 'yaml';
import { type KindName, kinds } from '../../api/kinds.ts';
import type { KindDefinition } from '../../api/schema/kind.ts';
import { crdOf } from './crd.ts';
import { rbacFiles } from './rbac.ts';
import { featureGateReference, referenceOf } from './reference.ts';
import { watcherPolicyFile } from './watcher-policy.ts';
import { webhooksFile } from './webhooks.ts';

/** A file that is never edited, by its path from the top of the repository. */
export interface GeneratedFile {
  readonly path: string;
  readonly content: string;
}

/** The folders in which every file is generated, but for those that people write. */
export const generatedFolders = ['deploy/crds', 'deploy/rbac', 'deploy/webhooks', 'docs/reference'] as const;

/**
 * What people write in these folders: limits have reasons, which no schema knows (a test holds the page to the code), and
 * policies are expressions of their own.
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

/** The base name of the reference page of each kind, as its page in docs/kinds and its folder in api/ are named. */
const pageNames: Readonly<Record<KindName, string>> = {
  ContainerRecreateRequest: 'container-recreate-request',
  CloneSet: 'cloneset',
  PodProbeMarker: 'pod-probe-marker',
  NodePodProbe: 'node-pod-probe',
  ImageListPullJob: 'image-list-pull-job',
  ImagePullJob: 'image-pull-job',
  NodeImage: 'node-image',
};

/** All generated files, as they must be. */
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

/** A file that is not as it must be, in words. */
export interface Drift {
  readonly path: string;
  readonly what: string;
}

/**
 * Compares what must be with what is there: `present` is every file in the generated folders, by path. What people write
 * there is no drift.
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
