import type { SourceFile } from './source.ts';

/** A part of the project that the import rules speak of: a folder at the top. */
type Area =
  | 'api'
  | 'plan'
  | 'kube'
  | 'process'
  | 'workflows'
  | 'activities'
  | 'watcher'
  | 'webhook'
  | 'workers'
  | 'daemon'
  | 'cli'
  | 'deploy'
  | 'test';

interface Rule {
  /** May be imported as it is. */
  readonly values: readonly Area[];
  /** May be imported by `import type` besides. */
  readonly types: readonly Area[];
}

/** What everything stands on. */
const ground: readonly Area[] = ['api', 'plan', 'kube'];

/** Who may import whom, besides its own area. Wiring (see `isWiring`) stands outside this table. */
const rules: Readonly<Record<Area, Rule>> = {
  api: { values: [], types: [] },
  plan: { values: ['api'], types: [] },
  kube: { values: ['api'], types: [] },
  process: { values: ground, types: [] },
  workflows: { values: ['api', 'plan'], types: ['activities', 'watcher'] },
  activities: { values: ground, types: ['workflows', 'watcher', 'process'] },
  watcher: { values: ground, types: ['workflows', 'activities', 'process'] },
  webhook: { values: ground, types: ['process'] },
  daemon: { values: [...ground, 'activities'], types: ['workflows', 'watcher', 'process'] },
  cli: { values: [...ground, 'activities'], types: ['workflows', 'watcher', 'process'] },
  deploy: { values: [...ground, 'activities', 'process', 'workers'], types: ['workflows', 'watcher', 'daemon'] },
  workers: { values: [...ground, 'process', 'workflows', 'activities', 'watcher', 'webhook'], types: ['daemon'] },
  test: {
    values: [
      ...ground,
      ...(['process', 'workflows', 'activities', 'watcher', 'webhook', 'workers', 'daemon', 'cli', 'deploy'] as const),
    ],
    types: [],
  },
};

/** `workers/` and the `main.ts` files put the parts together, so they may import any part that runs in a cluster. */
const wiringMayImport: readonly Area[] = [
  ...ground,
  ...(['process', 'workflows', 'activities', 'watcher', 'webhook', 'workers', 'daemon'] as const),
];

/** Every import that points the wrong way. */
export function importProblems(sources: readonly SourceFile[]): readonly string[] {
  return sources.flatMap((source) => {
    const from = areaOf(source.path);
    if (from === undefined) return [];
    return source.imports.flatMap(({ path, typeOnly, line }) => {
      const to = path === undefined ? undefined : areaOf(path);
      if (path === undefined || to === undefined || mayImport(source.path, from, to, typeOnly)) return [];
      const onlyTypes = rules[from].types.includes(to) ? ', except by `import type`' : '';
      return [`${source.path}:${line}: ${from} may not import ${to}${onlyTypes}: "${path}"`];
    });
  });
}

function mayImport(path: string, from: Area, to: Area, typeOnly: boolean): boolean {
  if (from === to || rules[from].values.includes(to)) return true;
  if (isWiring(path) && wiringMayImport.includes(to)) return true;
  return typeOnly && rules[from].types.includes(to);
}

function isWiring(path: string): boolean {
  return path.startsWith('workers/') || /^(watcher|webhook|daemon|cli)\/main\.ts$/.test(path);
}

function areaOf(path: string): Area | undefined {
  const folder = path.slice(0, path.indexOf('/'));
  return Object.keys(rules).find((area): area is Area => area === folder);
}
