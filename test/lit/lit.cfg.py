# Configuration of the lit suite. Substitutions beside LLVM's (FileCheck, not, split-file, count):
#   ninfer-opt, ninfer-build, ninfer-exec, ninfer-convert, ninfer-inspect   the tools of this build, by absolute path
#   make_tiny_artifact   writes random artifacts (test/tools)
#   %source     the source tree             %mlir_include   MLIR's headers and .td files        %python
#   %fixtures   test/fixtures of the source tree      %examples   examples of the source tree
# A tool that was not built keeps its substitution, so its tests fail (command not found) and never pass or skip.
# Every ninfer-opt call also verifies that what it parsed survives printing and parsing, as text and as bytecode;
# NINFER_LIT_ROUNDTRIP=0 in the environment switches that off.
import os
import sys

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "NINFER"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.ninfer_binary_dir, "test", "lit")

llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)

# A check that can never match is a mistake of the test, so FileCheck gets the strict options; and the tools
# that judge output must exist.
filecheck = os.path.join(config.llvm_tools_dir, "FileCheck")
for tool in ["FileCheck", "not", "split-file", "count"]:
    if not os.access(os.path.join(config.llvm_tools_dir, tool), os.X_OK):
        lit_config.fatal("%s is missing from %s" % (tool, config.llvm_tools_dir))
config.substitutions.append(("%source", config.ninfer_source_dir))
config.substitutions.append(("%mlir_include", config.mlir_include_dir))
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%fixtures", os.path.join(config.ninfer_source_dir, "test", "fixtures")))
config.substitutions.append(("%examples", os.path.join(config.ninfer_source_dir, "examples")))

opt_flags = [] if os.environ.get("NINFER_LIT_ROUNDTRIP") == "0" else ["--verify-roundtrip"]


def ninfer_tool(name, flags=()):
    return ToolSubst(name, command=os.path.join(config.ninfer_tools_dir, name), extra_args=list(flags))


llvm_config.add_tool_substitutions(
    [
        ToolSubst("FileCheck", command=filecheck,
                  extra_args=["--enable-var-scope", "--allow-unused-prefixes=false", "--dump-input-context=20"]),
        ninfer_tool("ninfer-opt", opt_flags),
        ninfer_tool("ninfer-build"),
        ninfer_tool("ninfer-exec"),
        ninfer_tool("ninfer-convert"),
        ninfer_tool("ninfer-inspect"),
        ToolSubst("make_tiny_artifact",
                  command=os.path.join(config.ninfer_binary_dir, "test-bin", "make_tiny_artifact")),
    ],
    [config.llvm_tools_dir],
)
