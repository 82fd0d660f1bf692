import { describe, expect, it } from '@jest/globals';
import { importCircles } from '../check/import-circles.ts';
import { importProblems } from '../check/import-rules.ts';
import { projectOf } from '../check/project.ts';

/** A tree of files with these statements. */
function tree(files: Readonly<Record<string, string>>) {
  return projectOf(Object.entries(files).map(([path, text]) => ({ path, text }))).sources;
}

describe('importProblems', () => {
  it.each([
    ['activities/kube/pods.ts', "import { isActive } from '../../api/pod.ts';"],
    ['watcher/kinds/pod.ts', "import { nextBatch } from '../../plan/restart.ts';"],
    ['workflows/restart.ts', "import type { NodeActivities } from '../activities/cri/contract.ts';"],
    ['activities/fleet/advance.ts', "import type { FleetQueue } from '../../watcher/fleet/queue.ts';"],
    ['watcher/watcher.ts', "import type { Logger } from '../process/log.ts';"],
    ['daemon/probes.ts', "import { probe } from '../activities/cri/probes.ts';"],
    ['workers/main.ts', "import { watch } from '../watcher/reflector.ts';"],
    ['watcher/main.ts', "import { createKubeClient } from '../activities/kube/client.ts';"],
    ['webhook/main.ts', "import { loadConfig } from '../process/config.ts';"],
    ['daemon/main.ts', "import { Reflector } from '../watcher/reflector.ts';"],
    ['test/unit/pods.test.ts', "import { up } from '../../deploy/local/platform.ts';"],
    ['api/cloneset.ts', "import { isActive } from './pod.ts'; import { Type } from 'typebox';"],
  ])('lets %s say %s', (path, text) => {
    expect(importProblems(tree({ [path]: text }))).toEqual([]);
  });

  it.each([
    ['api/pod.ts', "import type { Decision } from '../plan/decision.ts';", 'api may not import plan'],
    ['plan/restart.ts', "import type { F } from '../workflows/restart.ts';", 'plan may not import workflows'],
    [
      'watcher/starter.ts',
      "import { parseConfig } from '../process/config.ts';",
      'watcher may not import process, except by `import type`',
    ],
    [
      'activities/kube/pods.ts',
      "import { waitFor } from '../../test/support/wait.ts';",
      'activities may not import test',
    ],
    ['workers/main.ts', "import { up } from '../deploy/local/platform.ts';", 'workers may not import deploy'],
    [
      'watcher/kinds/main.ts',
      "import { c } from '../../process/config.ts';",
      'watcher may not import process, except by `import type`',
    ],
  ])('refuses that %s says %s', (path, text, problem) => {
    expect(importProblems(tree({ [path]: text }))).toEqual([expect.stringContaining(`${path}:1: ${problem}: `)]);
  });

  it('lets only types cross between workflows, activities and watcher', () => {
    const text = "import { type Stop } from '../activities/cri/contract.ts';";
    expect(importProblems(tree({ 'workflows/restart.ts': text }))).toEqual([
      'workflows/restart.ts:1: workflows may not import activities, except by `import type`: "activities/cri/contract.ts"',
    ]);
  });

  it('ignores imports in comments and texts', () => {
    expect(
      importProblems(
        tree({ 'api/a.ts': "// import '../process/config.ts'\nexport const a = `import '../cli/b.ts'`;" }),
      ),
    ).toEqual([]);
  });
});

describe('importCircles', () => {
  it('names all files of a circle once, types included', () => {
    const files = {
      'plan/a.ts': "import type { B } from './b.ts';",
      'plan/b.ts': "import { c } from './c.ts'; import { d } from './d.ts';",
      'plan/c.ts': "export { a } from './a.ts';",
      'plan/d.ts': "import { c } from './e.ts';",
      'plan/e.ts': '',
    };
    expect(importCircles(tree(files))).toEqual([
      'plan/a.ts: these files import one another in a circle: plan/a.ts, plan/b.ts, plan/c.ts',
    ]);
  });

  it('tells two circles apart, of which one reaches the other', () => {
    const files = {
      'api/a.ts': "import { b } from './b.ts'; import { c } from './c.ts';",
      'api/b.ts': "import { a } from './a.ts';",
      'api/c.ts': "import { d } from './d.ts';",
      'api/d.ts': "import { c } from './c.ts';",
    };
    expect(importCircles(tree(files)).map((problem) => problem.slice(0, 8))).toEqual(['api/c.ts', 'api/a.ts']);
  });

  it('has nothing against many ways to one file', () => {
    const files = {
      'api/a.ts': "import { b } from './b.ts'; import { c } from './c.ts';",
      'api/b.ts': "import { d } from './d.ts';",
      'api/c.ts': "import { d } from './d.ts';",
      'api/d.ts': "import { join } from 'node:path';",
    };
    expect(importCircles(tree(files))).toEqual([]);
  });
});
