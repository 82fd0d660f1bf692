import { down, status, up } from '../../deploy/local/platform.ts';
import { createProgress, silentProgress } from '../../deploy/local/progress.ts';
import { run } from '../../deploy/local/run.ts';
import { toolPath } from '../../deploy/local/tools.ts';

export interface PlatformNeeds {
  /** The instance's name. Each checkout has its own folder and so its own instances. */
  readonly instance: string;
  readonly nodes: number;
  /** Windlass's own roles as parts of it. */
  readonly windlass: boolean;
  /** For every role, beside those of the local platform. Absent: none. */
  readonly featureGates?: string;
  /** Leave it up afterwards, and take over one that was left up. */
  readonly keep: boolean;
}

/**
 * Does the work while an instance of the local platform is up; the work learns its name from WINDLASS_INSTANCE. What a
 * run that was killed left behind is taken down first, and the instance is taken down however the work ends. If it cannot be
 * brought up, that is tried once more.
 */
export async function withPlatform<Result>(
  { instance, nodes, windlass, featureGates, keep }: PlatformNeeds,
  work: () => Promise<Result>,
  progress = createProgress(),
): Promise<Result> {
  if (!keep) await down(instance, progress);
  try {
    const bringUp = () => up({ name: instance, nodes, windlass, featureGates, progress });
    await bringUp().catch(async (error: unknown) => {
      const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
      console.log(`Instance "${instance}" could not be brought up, it is tried once more: ${why}`);
      await down(instance, progress);
      await bringUp();
    });
    return await work();
  } finally {
    if (!keep) await down(instance, progress);
  }
}

/**
 * The same with several instances, each with its own part of the work. The first one begins as soon as it is up; the others
 * are brought up meanwhile, each after the one before.
 */
export async function withPlatforms<Result>(
  { instances, ...needs }: Omit<PlatformNeeds, 'instance'> & { readonly instances: readonly string[] },
  work: (instance: string, index: number) => Promise<Result>,
): Promise<readonly Result[]> {
  let before: Promise<unknown> = Promise.resolve();
  const parts = instances.map(async (instance, index) => {
    const { promise: isUp, resolve } = Promise.withResolvers<void>();
    const turn = before;
    before = isUp;
    await turn;
    // spinners would overwrite what tests print on a terminal
    const progress = index > 0 && process.stderr.isTTY ? silentProgress : createProgress();
    const begin = () => {
      resolve();
      return work(instance, index);
    };
    return await withPlatform({ instance, ...needs }, begin, progress).finally(resolve);
  });
  await Promise.allSettled(parts);
  return await Promise.all(parts);
}

/**
 * Deletes the namespaces that tests have made on an instance, with all that is in them, and waits until they are gone. Without
 * nodes nobody ends their pods, and nothing is waited for.
 */
export async function removeNamespaces(instance: string, { nodes }: Pick<PlatformNeeds, 'nodes'>): Promise<void> {
  const kubectl = (...args: readonly string[]) =>
    run(toolPath('kubectl'), args, { env: { KUBECONFIG: status(instance)?.kubeconfig ?? '' } });
  const names = (await kubectl('get', 'namespaces', '-o', 'name')).split('\n');
  const made = names.filter((name) => madeByTest.test(name));
  if (made.length > 0) await kubectl('delete', ...made, nodes > 0 ? '--timeout=300s' : '--wait=false');
}

const madeByTest = /^namespace\/test-/;
