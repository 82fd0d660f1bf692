import type { PartStatus } from './parts.ts';

/** What waits while a part of this name does not run, and what the objects say. */
const waitingFor: readonly (readonly [RegExp, string])[] = [
  [/^worker/, 'every operation; objects say EngineNoWorkers within 15 s'],
  [
    /^watcher/,
    'new objects, roll-outs, commands by annotation; nothing says so on objects, because the watcher writes that. Beside another watcher only until that leads',
  ],
  [/^webhook/, 'new and changed objects of Windlass, which are refused'],
  [/^daemon-/, 'restarts, pulls and probes on that node; objects say EngineNoDaemon within 15 s, later NodeSilent'],
  [/^temporal$/, 'every operation; objects say EngineSilent after a minute'],
  [/^registry$/, 'pulls of images'],
  [/^(apiserver|etcd)$/, 'everything'],
  [/^(kubelet|containerd)-/, 'the pods of that node'],
  [/^scheduler$/, 'pods that have no node yet'],
  [/^controller-manager$/, "Kubernetes' own workloads, and the state of nodes"],
];

/** For each part that does not run: since when, what waits for it, and how to bring it back. */
export function partsDown(parts: readonly PartStatus[]): readonly string[] {
  return parts.flatMap(({ name, state, downSince }) => {
    if (state === 'running') return [];
    const since = downSince === undefined ? '' : ` since ${downSince}`;
    const waits = waitingFor.find(([names]) => names.test(name))?.[1] ?? 'what needs it';
    const verb = state === 'frozen' ? 'thaw' : 'start';
    return [`${name} is ${state}${since}. For it waits: ${waits}. npm run part -- ${verb} ${name}`];
  });
}
