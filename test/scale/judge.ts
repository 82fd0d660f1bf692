// What is asked of the figures: that ten times the pods take at most ten times as long, and few writes for each pod.

/** The steps that a CloneSet goes through, in order. */
export const stepNames = ['create', 'update, 100 % at once', 'update, 10 % at once', 'scale to zero'] as const;
/** Those of the sidecars of its pods. Swapped once: the kubelet backs off from a third one. */
export const coldSteps = ['create with a cold sidecar', 'update of cold sidecars, 10 % at once'] as const;
export const hotSteps = ['create with a hot sidecar', 'swap of hot sidecars, 10 % at once'] as const;
/** Those of a DaemonSet. */
const unseenChange = 'annotation on every node';
export const nodeSteps = [
  'create on every node',
  'update, 100 % at once',
  'update, 10 % at once',
  unseenChange,
  'no node fits any more',
] as const;
const allSteps = [...new Set<StepName>([...stepNames, ...coldSteps, ...hotSteps, ...nodeSteps])];
export type StepName =
  | (typeof stepNames)[number]
  | (typeof coldSteps)[number]
  | (typeof hotSteps)[number]
  | (typeof nodeSteps)[number];

/** What a step took. */
export interface StepFigures {
  readonly pods: number;
  readonly step: StepName;
  readonly seconds: number;
  /** API calls of each role of Windlass. */
  readonly calls: readonly RoleCalls[];
  /** Of the roll-out's history; 0 where nothing is rolled out. */
  readonly historyEvents: number;
  readonly usage: readonly RoleUsage[];
  readonly stolenPercent: number;
  /** Load average of the machine over the last minute of the step: what else was going on. */
  readonly load: number;
}

export interface RoleCalls {
  readonly role: string;
  readonly reads: number;
  readonly writes: number;
  /** Among the writes: those of pods. */
  readonly podWrites: number;
  /** Among the writes: those that were refused, mostly because somebody else had written meanwhile. */
  readonly refused: number;
}

export interface RoleUsage {
  /** Or the row of everything that is not Windlass's own. */
  readonly role: string;
  readonly cpuSeconds: number;
  readonly rssMegabytes: number;
}

/** A claim about the figures, and whether they bear it out. */
export interface Judgement {
  readonly claim: string;
  readonly figure: string;
  readonly holds: boolean;
}

/** The row of the cluster that carries Windlass. */
export const others = 'the cluster itself';

/** Unready, change, ready together with the record, and one to spare. */
export const mostWritesPerPod = 4;

/** Every claim that can be made of these figures. */
export function judge(figures: readonly StepFigures[]): readonly Judgement[] {
  return [
    ...allSteps.flatMap((step) => growth(figures, step)),
    ...figures.flatMap(writesPerPod),
    ...figures.flatMap(costOfEvent),
  ];
}

function growth(figures: readonly StepFigures[], step: StepName): readonly Judgement[] {
  const of = (pods: number) => figures.find((figure) => figure.step === step && figure.pods === pods);
  const [small, large] = [of(100), of(1_000)];
  if (small === undefined || large === undefined) return [];
  const atMostTen = (claim: string, ratio: number) =>
    Number.isFinite(ratio) ? [{ claim, figure: `${ratio.toFixed(1)} times`, holds: ratio <= 10 }] : [];
  return [
    ...atMostTen(`${step}: 1,000 pods take at most ten times as long as 100`, large.seconds / small.seconds),
    // says the same on a machine that is busy with something else
    ...atMostTen(`${step}: and Windlass at most ten times the CPU`, ownCpu(large) / ownCpu(small)),
  ];
}

function ownCpu({ usage }: StepFigures): number {
  return usage.filter(({ role }) => role !== others).reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0);
}

/** Microseconds of the watcher for an event of a node in which no DaemonSet sees anything new. */
const mostPerEvent = 500;

function costOfEvent({ pods, step, usage }: StepFigures): readonly Judgement[] {
  // of fewer events the watcher's own work meanwhile is most of it
  if (step !== unseenChange || pods < 1_000) return [];
  const seconds = usage.find(({ role }) => role === 'watcher')?.cpuSeconds ?? Number.NaN;
  const each = (seconds / pods) * 1_000_000;
  const claim = `${pods} nodes: an event that changes nothing costs the watcher at most ${mostPerEvent} µs`;
  return [{ claim, figure: `${each.toFixed(0)} µs`, holds: each <= mostPerEvent }];
}

function writesPerPod({ pods, step, calls }: StepFigures): readonly Judgement[] {
  if (!step.startsWith('update')) return [];
  const writes = calls.reduce((sum, role) => sum + role.podWrites, 0) / pods;
  const claim = `${step}, ${pods} pods: at most ${mostWritesPerPod} API writes for each pod`;
  return [{ claim, figure: writes.toFixed(2), holds: writes <= mostWritesPerPod }];
}
