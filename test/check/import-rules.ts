import type { SourceFile } from './source.ts';

/** A part of the project that the import rules speak of: a folder, or a folder within one. */
type Area =
  | 'api'
  | 'kube'
  | 'plan'
  | 'workflows'
  | 'activities'
  | 'watcher'
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

/** Who may import whom, besides its own area. Wiring (see `isWiring`) stands outside this table. */
const rules: Readonly<Record<Area, Rule>> = {
  api: { values: [], types: [] },
  kube: { values: ['api'], types: [] },
  plan: { values: ['api'], types: [] },
  workflows: { values: ['api', 'plan'], types: ['activities', 'watcher'] },
  activities: { values: ['api', 'kube', 'plan'], types: ['workflows', 'watcher', 'workers'] },
  watcher: { values: ['api', 'kube', 'plan'], types: ['workflows', 'activities', 'workers'] },
  daemon: { values: ['api', 'kube', 'plan', 'activities'], types: ['workflows', 'watcher', 'workers'] },
  cli: { values: ['api', 'kube', 'plan', 'activities'], types: ['workflows', 'watcher'] },
  deploy: { values: ['api', 'kube', 'plan', 'activities', 'workers'], types: ['workflows', 'watcher', 'daemon'] },
  workers: { values: ['api', 'kube', 'plan', 'workflows', 'activities', 'watcher'], types: ['daemon'] },
  test: {
    values: ['api', 'kube', 'plan', 'workflows', 'activities', 'watcher', 'workers', 'daemon', 'cli', 'deploy'],
    types: [],
  },
};

/** `workers/` and the `main.ts` files put the parts together, so they may import any part that runs in a cluster. */
const wiringMayImport: readonly Area[] = [
  'api',
  'kube',
  'plan',
  'workflows',
  'activities',
  'watcher',
  'workers',
  'daemon',
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
      return [`${source.path}:${line}: ${nameOf(from)} may not import ${nameOf(to)}${onlyTypes}: "${path}"`];
    });
  });
}

function mayImport(path: string, from: Area, to: Area, typeOnly: boolean): boolean {
  if (from === to || rules[from].values.includes(to)) return true;
  if (isWiring(path) && wiringMayImport.includes(to)) return true;
  return typeOnly && rules[from].types.includes(to);
}

function isWiring(path: string): boolean {
  return path.startsWith('workers/') || /^(watcher|daemon|cli)(\/admission)?\/main\.ts$/.test(path);
}

function areaOf(path: string): Area | undefined {
  if (path.startsWith('workflows/plan/')) return 'plan';
  const folder = path.slice(0, path.indexOf('/'));
  return Object.keys(rules).find((area): area is Area => area === folder);
}

function nameOf(area: Area): string {
  return area === 'plan' ? 'workflows/plan' : area;
}
