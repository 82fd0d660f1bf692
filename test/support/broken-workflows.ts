import { sleep } from '@temporalio/workflow';

/** The workflow of this name in a release with a bug: it produces other commands than ours, and then fails. */
export async function restartContainers(): Promise<void> {
  void sleep('1 hour');
  throw new Error('a mistake of this release');
}
